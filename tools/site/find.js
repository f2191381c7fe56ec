// A table of a hundred rows or more gets a search, a choice of verdict, and an order.
// Without this script it is a plain table, to scroll.
"use strict";

function made(tag, properties, ...inside) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...inside);
  return element;
}

function findable(table) {
  const rows = [...table.tBodies[0].rows];
  const heads = [...table.tHead.rows[0].cells].map((head) => head.innerText);
  const text = (row, column) => row.cells[column].innerText;
  const words = made("input", { type: "search", placeholder: "words to find" });
  words.setAttribute("aria-label", "words to find");
  const found = made("output", {});
  const chosen = {};
  for (const name of ["verdict"].filter((head) => heads.includes(head))) {
    const values = [...new Set(rows.map((row) => text(row, heads.indexOf(name))))];
    const options = ["", ...values].map((value) =>
      made("option", { value }, value || `any ${name}`));
    chosen[name] = made("select", {}, ...options);
    chosen[name].setAttribute("aria-label", name);
  }

  function find() {
    const wanted = words.value.toLowerCase().split(/\s+/);
    let count = 0;
    for (const row of rows) {
      const all = row.innerText.toLowerCase();
      row.hidden = !wanted.every((word) => all.includes(word)) ||
        Object.entries(chosen).some(([name, { value }]) =>
          value && text(row, heads.indexOf(name)) !== value);
      count += !row.hidden;
    }
    found.value = `${count} of ${rows.length}`;
  }

  function order(column) {
    const by = (a, b) => text(a, column).localeCompare(text(b, column));
    table.tBodies[0].append(...rows.sort(by));
  }

  rows.forEach((row) => [...row.cells].forEach((cell, i) => {
    cell.dataset.head = heads[i];
  }));
  [...table.tHead.rows[0].cells].forEach((head, i) => {
    const button = made("button", { type: "button", title: "order by this" }, heads[i]);
    button.addEventListener("click", () => order(i));
    head.replaceChildren(button);
  });
  const form = made("form", { className: "find" }, words, ...Object.values(chosen), found);
  form.addEventListener("input", find);
  form.addEventListener("submit", (event) => event.preventDefault());
  table.classList.add("findable");
  table.before(form);
  find();
}

for (const table of document.querySelectorAll("article table.docutils")) {
  if (table.tBodies[0].rows.length >= 100) findable(table);
}
