// Below each result of the search: the section that has most of the words, and the words.
// TEXTS has the sections of each page, because a page that was opened as a file may not
// read the others.
"use strict";

const asked = (new URLSearchParams(location.search).get("q") || "").toLowerCase();
const wanted = asked.match(/[\w.]{2,}/g) || [];

function excerpt(page) {
  const score = (section) => wanted.filter((word) => section.join(" ").toLowerCase().includes(word)).length;
  const best = (TEXTS[page] || []).reduce((one, other) => (score(other) > score(one) ? other : one), ["", "", ""]);
  const [id, title, text] = best;
  if (!id || !score(best)) return null;
  const places = wanted.map((word) => text.toLowerCase().indexOf(word)).filter((place) => place >= 0);
  const near = Math.max(0, Math.min(...places, text.length) - 60);
  const begin = near && text.indexOf(" ", near) + 1;
  const link = Object.assign(document.createElement("a"), { href: `${page}.html#${id}`, textContent: title });
  const told = Object.assign(document.createElement("p"), { className: "excerpt" });
  told.append(link, ": ");
  const cut = new RegExp(`(${wanted.map((word) => word.replace(/\W/g, "\\$&")).join("|")})`, "gi");
  for (const piece of text.slice(begin, begin + 220).split(cut)) {
    const found = wanted.includes(piece.toLowerCase());
    told.append(found ? Object.assign(document.createElement("mark"), { textContent: piece }) : piece);
  }
  return told;
}

new MutationObserver((changes) => {
  for (const item of changes.flatMap((change) => [...change.addedNodes])) {
    const link = item.nodeName === "LI" && item.querySelector("a");
    const told = link && excerpt(link.getAttribute("href").split(".html")[0]);
    if (told) item.append(told);
  }
}).observe(document.getElementById("search-results"), { childList: true, subtree: true });
