// A sortable table that says how many rows it hides, and can be downloaded as CSV or JSON.

import { counted, h, plural } from "./dom.js";

/**
 * Columns are {head, value(row), cell(row)?, number?, prose?, short?, tool?, rare?, hidden?}: `value` is what is sorted and exported, `cell` what is
 * shown. A `short` cell takes one line, a `tool` is not printed, a `rare` column is left out if it is empty, and a `hidden` one is only in the
 * downloaded files, which are called `name`.
 */
export function table(name, caption, all, rows, most = 200) {
  const columns = all.filter((column) => !column.rare || rows.some((row) => ![null, undefined, ""].includes(column.value(row))));
  const seen = columns.filter((column) => !column.hidden);
  const box = h("div", { class: "table" });
  let order = null;
  let shown = most;
  const draw = () => {
    const sorted = order ? [...rows].sort(by(order.column, order.down)) : rows;
    box.replaceChildren(
      h("div", { class: "title" }, h("h2", {}, caption), h("p", { class: "tools" }, download("CSV", () => csv(columns, sorted)), download("JSON", () => json(columns, sorted)))),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
        h("table", {}, h("caption", {}, caption), head(), body(sorted.slice(0, shown)))),
      ...(rows.length > shown ? [h("p", { class: "tools" }, `${counted(shown)} of ${plural(rows.length, "row")}`, h("button", { type: "button", onclick: () => { shown = rows.length; draw(); box.querySelectorAll("tr")[most + 1].querySelector("a, button")?.focus(); } }, "Show all"))] : []),
    );
  };
  const head = () => h("thead", {}, h("tr", {}, ...seen.map((column) => {
    const is = order?.column === column;
    const sort = () => { order = { column, down: is ? !order.down : Boolean(column.number) }; draw(); box.querySelector("[aria-sort] button").focus(); };
    return h("th", { scope: "col", class: kind(column), "aria-sort": is ? (order.down ? "descending" : "ascending") : null },
      column.tool ? column.head : h("button", { type: "button", onclick: sort }, column.head));
  })));
  const body = (some) => h("tbody", {}, ...some.map((row) => h("tr", {}, ...seen.map((column) =>
    h("td", { class: kind(column), "data-head": column.head }, h("div", {}, (column.cell ?? column.value)(row) ?? "–"))))));
  const download = (format, text) => h("button", { type: "button", "aria-label": `${format}: ${caption}`, onclick: () => save(`${name}.${format.toLowerCase()}`, text()) }, format);
  draw();
  return box;
}

const kind = (column) => ["number", "prose", "short", "tool"].find((name) => column[name]);

function by(column, down) {
  return (left, right) => {
    const [a, b] = [column.value(left), column.value(right)];
    if (a === b) return 0;
    if (a === null || a === undefined) return 1;
    if (b === null || b === undefined) return -1;
    const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
    return down ? -order : order;
  };
}

/** Returns CSV for spreadsheets, in which values that look like formulas become text. */
function csv(columns, rows) {
  const line = (cells) => cells.map(quoted).join(",");
  return [line(columns.map((column) => column.head)), ...rows.map((row) => line(columns.map((column) => column.value(row))))].join("\r\n");
}

function quoted(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const json = (columns, rows) => JSON.stringify(rows.map((row) => Object.fromEntries(columns.map((column) => [column.head, column.value(row) ?? null]))), null, 1);

/** Offers generated content as a download. */
export function save(name, content) {
  const blob = content instanceof Blob ? content : new Blob([content], { type: "text/plain" });
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
