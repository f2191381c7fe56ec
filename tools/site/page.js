// What pages gain by a script; without it, nothing is missing that must be there.
"use strict";

// What scrolls can be reached by keyboard.
const reach = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.scrollWidth > target.clientWidth || target.scrollHeight > target.clientHeight + 1) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});
for (const element of document.querySelectorAll("article :is(pre, table, .cell_output > div, [style*=overflow])")) reach.observe(element);

// On a phone, a touch makes a picture larger than the page, or whole again.
for (const picture of document.querySelectorAll("article img")) picture.addEventListener("click", () => picture.classList.toggle("large"));

// A table of a hundred rows or more gets a search, a choice of verdict or group, an order,
// and a switch for the rows that differ between versions.

function made(tag, properties, ...inside) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...inside);
  return element;
}

function findable(table) {
  const [head, body] = [table.tHead.rows[0], table.tBodies[0]];
  const names = [...head.cells].map((cell) => cell.innerText);
  const rows = [...body.rows];
  const text = (row, i) => row.cells[i].innerText;
  const i = names.findIndex((name) => ["verdict", "group"].includes(name));
  const choices = [...new Set(rows.map((row) => text(row, i)))];
  const words = made("input", { type: "search", placeholder: "words", ariaLabel: "words to find" });
  const choice = made("select", { ariaLabel: names[i] }, made("option", { value: "" }, `any ${names[i]}`),
    ...choices.map((one) => made("option", {}, one)));
  const differing = made("input", { type: "checkbox" });
  const versions = rows.some((row) => "differs" in row.dataset)
    ? [made("label", {}, differing, " differs between versions")] : [];
  const found = made("output");

  // What a row shows counts; what is folded in it, such as a program, where no row shows it.
  const folded = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  const shown = new Map(rows.map((row) => [row, [...row.cells]
    .map((cell) => (cell.querySelector("summary") ?? cell).textContent).join(" ").toLowerCase()]));

  function find() {
    const wanted = words.value.toLowerCase().split(/\s+/);
    const has = (texts) => (row) => wanted.every((word) => texts.get(row).includes(word));
    const fits = has(rows.some(has(shown)) ? shown : folded);
    for (const row of rows) {
      row.hidden = (choice.value && text(row, i) !== choice.value)
        || (differing.checked && !("differs" in row.dataset))
        || !fits(row);
    }
    found.value = `${rows.filter((row) => !row.hidden).length} of ${rows.length}`;
  }

  rows.forEach((row) => [...row.cells].forEach((cell, j) => { cell.dataset.head = names[j]; }));
  [...head.cells].forEach((cell, j) => cell.replaceChildren(made("button", {
    title: "order by this",
    onclick: () => body.append(...rows.sort((a, b) => text(a, j).localeCompare(text(b, j)))),
  }, names[j])));
  table.classList.add("findable");
  table.before(made("form", { className: "find", oninput: find, onsubmit: () => false },
    words, choice, ...versions, found));
  find();
}

for (const table of document.querySelectorAll("article table.docutils")) {
  if (table.tBodies[0].rows.length >= 100) findable(table);
}
