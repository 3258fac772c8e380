// A search field for series or runs that shows matches while typing.

import { h, plural } from "./dom.js";

/**
 * A search field with the matches beneath it. `items` have a lowercase `text` to search in, `item` creates the list entry of
 * one, `hint` is the placeholder, and `keep` is called with a query that is left, as by following a link.
 */
export function finder({ id, label, items, item, nouns, query = "", hint = "", keep = null }) {
  const list = h("ul", { class: "found", tabindex: "0", "aria-label": "Matches", hidden: true });
  const said = h("p", { class: "quiet", role: "status" });
  const input = h("input", { type: "search", id, value: query, autocomplete: "off", placeholder: hint, oninput: () => look(), onchange: () => keep?.(input.value) });
  const look = () => {
    const asked = input.value.trim();
    const { matches, total, exact } = search(items, asked);
    said.textContent = asked ? summary(matches.length, total, exact, nouns) : "";
    list.hidden = !asked || !matches.length;
    list.replaceChildren(...(asked ? matches : []).map((one) => h("li", {}, ...item(one, input))));
  };
  look();
  return h("div", { class: "finder" }, h("label", { for: id }, `${label} `), input, said, list);
}

function summary(shown, total, exact, [noun, nouns]) {
  const first = total > shown ? `; the first ${shown}` : "";
  if (exact) return `${plural(total, noun, nouns)} ${total === 1 ? "matches" : "match"}${first}.`;
  return total ? `No ${noun} matches all of these words. The nearest ${shown}:` : `No ${noun} matches, not even roughly.`;
}

/** Finds the items whose text contains every word of the query, those that have all as whole words first; if there are none, those with most words, and `exact` is false. */
export function search(items, query, most = 50) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const scored = items.map((item) => [words.filter((word) => item.text.includes(word)).length, item]);
  const best = scored.reduce((most, [score]) => Math.max(most, score), 0);
  const found = best || !words.length ? scored.filter(([score]) => score === best).map(([, item]) => item) : [];
  const isWhole = (item) => words.every((word) => ` ${item.text} `.includes(` ${word} `));
  const matches = [true, false].flatMap((first) => found.filter((item) => isWhole(item) === first));
  return { matches: matches.slice(0, most), total: found.length, exact: best === words.length };
}
