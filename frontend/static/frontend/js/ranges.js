// The period of a page's charts: entered in the reader's zone, and taken from a zoomed chart.
(() => {
  "use strict";
  const pad = (n) => String(n).padStart(2, "0");
  const typed = (d) =>
    `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())}T${pad(d.getHours())}:${pad(d.getMinutes())}`;
  const utc = (d) => `${d.toISOString().slice(0, 19)}Z`;

  // The fields contain UTC, which is submitted without scripts.
  for (const form of document.querySelectorAll("[data-range-form]")) {
    for (const input of form.querySelectorAll("[data-utc]")) input.value = typed(new Date(`${input.dataset.utc}Z`));
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    form.querySelector("[data-zone]").textContent = zone || "";
    form.addEventListener("formdata", ({ formData }) => {
      for (const name of ["from", "to"]) {
        const moment = new Date(formData.get(name));
        if (!Number.isNaN(moment.getTime())) formData.set(name, utc(moment));
      }
    });
  }

  document.addEventListener("allotment:zoomed", ({ detail }) => {
    for (const link of document.querySelectorAll("[data-zoom-range]")) {
      link.hidden = !detail.range;
      if (!detail.range) continue;
      const query = new URLSearchParams(location.search);
      query.delete("range");
      const [from, to] = detail.range.map((moment) => new Date(String(moment).replace(" ", "T")));
      query.set("from", utc(from));
      query.set("to", utc(new Date(Math.max(to, from.getTime() + 60000))));
      link.href = `?${query}`;
    }
  });

  document.addEventListener("click", (event) => {
    for (const open of document.querySelectorAll(".range-custom[open]")) {
      if (!open.contains(event.target)) open.open = false;
    }
  });
})();
