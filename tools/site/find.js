// The search, in place of Sphinx's, which takes a page for as good as its best word.
// TEXTS has the sections of each page, because a page that was opened as a file may not
// read the others; Stemmer and stopwords are Sphinx's.
"use strict";

// What says what to do comes before what lists; the pages for teachers come last.
const KINDS = [[/^cheat_sheet|^\d|^reference/, 1], [/^messages/, 0.8], [/^workshop/, 0.2], [/^/, 0.6]];
const TITLE = 1.5; // what a word in a title counts more

const stems = new Map(); // slower is slow, and a compiler compiles
const stem = (word) => stems.get(word) || stems.set(word, new Stemmer().stemWord(word).replace(/(?<=...)er$/, "")).get(word);
const whole = (text) => text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) || [];
const words = (text) => whole(text).flatMap((word) => [...new Set([word, ...word.split("_")])]).map(stem);

const PAGES = Object.entries(TEXTS).map(([page, sections]) => sections.map(([id, title, text]) => {
  const counts = new Map();
  const all = [...words(title), ...words(text)];
  for (const word of all) counts.set(word, (counts.get(word) || 0) + 1);
  const above = sections[0][1];
  return { page, id, title, text, counts, size: all.length, above, titled: new Set(words(title)), named: new Set(words(above)) };
}));
const SECTIONS = PAGES.flat();
const MEAN = SECTIONS.reduce((sum, section) => sum + section.size, 0) / SECTIONS.length;

// Return whether a title has a word; to compile again is to recompile.
const heads = (title, word) => title.has(word) || title.has(word.replace(/^re/, ""));

// Return how well a section answers, by BM25, if it has most of the words.
function scored(section, wanted) {
  let score = 0, found = 0;
  for (const { word, rare } of wanted) {
    const count = section.counts.get(word) || 0;
    if (!count) continue;
    const often = (2.2 * count) / (count + 1.2 * (0.25 + (0.75 * section.size) / MEAN));
    score += rare * (often + TITLE * heads(section.titled, word) + TITLE * heads(section.named, word));
    found += 1;
  }
  return score * (found / wanted.length) ** 2 * KINDS.find(([pattern]) => pattern.test(section.page))[1];
}

// Return the best section of each page, the best page first: its other sections count, too.
function ranked(query) {
  const asked = [...new Set(whole(query))];
  const told = asked.filter((word) => !stopwords.has(word));
  const wanted = (told.length ? told : asked).map(stem).map((word) => {
    const having = SECTIONS.filter((section) => section.counts.has(word)).length;
    return { word, rare: Math.log(1 + SECTIONS.length / Math.max(1, having)) };
  });
  const better = (one, other) => other.score - one.score;
  return PAGES.map((sections) => {
    const judged = sections.map((section) => ({ ...section, score: scored(section, wanted) })).sort(better);
    return { ...judged[0], score: judged.reduce((sum, { score }, i) => sum + score / (i + 1) ** 2, 0) };
  }).filter(({ score }) => score).sort(better).slice(0, 20);
}

// --- the page ---

function made(tag, properties, ...inside) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...inside);
  return element;
}

// Return the text of a section around the first word that was found, the words marked.
function excerpt(text, wanted) {
  const pieces = text.split(/([\p{L}\p{N}_]+)/u);
  const is = (piece) => words(piece).some((word) => wanted.has(word));
  const first = Math.max(0, pieces.findIndex(is) - 16);
  return pieces.slice(first, first + 70).map((piece) => (is(piece) ? made("mark", {}, piece) : piece));
}

Search.performSearch = (query) => {
  const found = ranked(query);
  const wanted = new Set(whole(query).filter((word) => !stopwords.has(word)).map(stem));
  const told = found.length ? `The best ${found.length} pages:` : "No page has these words.";
  const items = found.map(({ page, id, above, title, text }) => made("li", {},
    made("a", { href: `${page}.html` }, above),
    made("p", { className: "excerpt" },
      ...(title === above ? [] : [made("a", { href: `${page}.html#${id}` }, title), ": "]), ...excerpt(text, wanted))));
  document.getElementById("search-results").replaceChildren(
    made("p", { role: "status" }, told), made("ul", { className: "search" }, ...items));
};
