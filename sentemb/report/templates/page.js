"use strict";
// A click on a column's name sorts by it: numbers from the largest, names from A; another click turns it round.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => sort(table, heads, column));
  });
}

function sort(table, heads, column) {
  const head = heads[column];
  const numeric = head.classList.contains("number");
  const [first, second] = numeric ? ["descending", "ascending"] : ["ascending", "descending"];
  const direction = head.getAttribute("aria-sort") === first ? second : first;
  heads.forEach((other) => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", direction);
  const sign = direction === "ascending" ? 1 : -1;
  const rows = [...table.tBodies[0].rows];
  rows.sort((a, b) => compare(a.cells[column], b.cells[column], numeric, sign));
  table.tBodies[0].append(...rows);
}

function compare(a, b, numeric, sign) {
  if (!numeric) return sign * a.textContent.localeCompare(b.textContent, "en", { numeric: true });
  // What has no number stays below in either direction.
  const missing = !("value" in a.dataset) - !("value" in b.dataset);
  return missing || sign * (Number(a.dataset.value) - Number(b.dataset.value)) || 0;
}
