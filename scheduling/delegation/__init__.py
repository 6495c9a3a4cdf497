"""Clusters that admit by themselves: our quota tree and jobs go there, what was decided comes back."""
