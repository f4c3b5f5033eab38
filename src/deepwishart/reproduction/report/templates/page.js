"use strict";
(() => {
  // Sorting: numbers before texts, empty cells last, ties in the order they were in.
  const key = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? cell.textContent.trim() : Number(cell.dataset.value);
  };
  const empty = (value) => value === "" || /^\u2014/.test(value);
  const compare = (a, b, sign) => {
    if (empty(a) || empty(b)) return empty(a) - empty(b);
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return sign * (typeof a === "number" ? a - b : a.localeCompare(b));
  };
  document.querySelectorAll("table.sortable").forEach((table) => {
    const headings = [...table.tHead.rows[0].cells];
    headings.forEach((heading, column) => heading.addEventListener("click", () => {
      const descending = heading.getAttribute("aria-sort") === "ascending";
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
      table.classList.add("sorted");
      const body = table.tBodies[0];
      const rows = [...body.rows].map((row) => [key(row, column), row]);
      rows.sort((a, b) => compare(a[0], b[0], descending ? -1 : 1));
      body.append(...rows.map((pair) => pair[1]));
    }));
  });
})();
