// A table that sorts, says how much it hides, and can be taken along as CSV or JSON.

import { h, plural } from "./dom.js";

const MOST = 200;

/**
 * `columns` are {head, value(row), cell(row)?, number?, prose?, wrapped?, rare?}: `value` is what is sorted and exported,
 * `cell` what is shown; only `prose` and what is `wrapped` may take several lines, and a `rare` column is left out where it says nothing.
 * `name` is that of the files to download.
 */
export function table(name, caption, all, rows, most = MOST) {
  const columns = all.filter((column) => !column.rare || rows.some((row) => ![null, undefined, ""].includes(column.value(row))));
  const box = h("div", { class: "table" });
  let order = null;
  let shown = most;
  const draw = () => {
    const sorted = order ? [...rows].sort(by(columns[order.place], order.down)) : rows;
    box.replaceChildren(
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
        h("table", {}, h("caption", {}, caption), head(), body(sorted.slice(0, shown)))),
      h("p", { class: "tools" }, rest(), download("CSV", () => csv(columns, sorted)), download("JSON", () => json(columns, sorted))),
    );
  };
  const head = () => h("thead", {}, h("tr", {}, ...columns.map((column, place) => {
    const sort = () => { order = { place, down: order?.place === place ? !order.down : Boolean(column.number) }; draw(); };
    const direction = order?.place === place ? (order.down ? "descending" : "ascending") : null;
    return h("th", { scope: "col", class: column.number ? "number" : null, "aria-sort": direction },
      h("button", { type: "button", onclick: sort }, column.head));
  })));
  const body = (some) => h("tbody", {}, ...some.map((row) => h("tr", {}, ...columns.map((column) =>
    h("td", { class: ["number", "prose", "wrapped"].find((name) => column[name]) }, (column.cell ?? column.value)(row) ?? "–")))));
  const rest = () => (rows.length > shown
    ? h("button", { type: "button", onclick: () => { shown = rows.length; draw(); } }, `Show all ${plural(rows.length, "row")}`)
    : h("span", {}, plural(rows.length, "row")));
  const download = (kind, text) => h("button", { type: "button", onclick: () => save(`${name}.${kind.toLowerCase()}`, text()) }, kind);
  draw();
  return box;
}

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

/** As a spreadsheet reads it; what would be a formula is text. */
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

function json(columns, rows) {
  return JSON.stringify(rows.map((row) => Object.fromEntries(columns.map((column) => [column.head, column.value(row) ?? null]))), null, 1);
}

/** Offer a file that was made here. */
export function save(name, content) {
  const blob = content instanceof Blob ? content : new Blob([content], { type: "text/plain" });
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
