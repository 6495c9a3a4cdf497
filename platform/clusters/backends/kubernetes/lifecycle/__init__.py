"""The pods of an attempt from their creation to their end, as the cluster reports them."""
