// Builds the page into src/tarmac/server/page/built: hashed files, each with a gzipped copy, the licences of what
// they contain, and entry.json, which names those that the document loads. Called by `make page`.

import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { constants, gzipSync } from "node:zlib";
import { build } from "esbuild";

const HERE = dirname(fileURLToPath(import.meta.url));
const BUILT = join(HERE, "../src/tarmac/server/page/built");
const ENTRIES = { page: "src/main.tsx", terminal: "src/terminal.tsx" }; // the documents, and their first modules
const FIRST_BYTES = 60 * 1024; // what a browser loads before the first row, gzipped
const PART_BYTES = 130 * 1024; // what a part loads when it is first used

const built = await build({
  absWorkingDir: HERE,
  entryPoints: ENTRIES,
  outdir: BUILT,
  entryNames: "[name]-[hash]",
  chunkNames: "part-[hash]",
  assetNames: "[name]-[hash]",
  bundle: true,
  publicPath: "/assets",
  splitting: true,
  format: "esm",
  target: ["es2022"],
  minify: true,
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  metafile: true,
  write: false,
  loader: { ".svg": "file" },
});

const next = `${BUILT}.new`;
await rm(next, { recursive: true, force: true });
await mkdir(next, { recursive: true });
for (const file of built.outputFiles) {
  const path = join(next, basename(file.path));
  await writeFile(path, file.contents);
  await writeFile(`${path}.gz`, packed(file.contents));
}

const outputs = built.metafile.outputs;
const entry = { icon: basename(Object.keys(outputs).find((name) => name.endsWith(".svg"))) };
for (const [document, source] of Object.entries(ENTRIES)) {
  const script = Object.keys(outputs).find((name) => outputs[name].entryPoint === source);
  entry[document] = {
    script: basename(script),
    modules: firstModules(script).map((name) => basename(name)),
    style: basename(outputs[script].cssBundle),
  };
}
await writeFile(join(next, "entry.json"), JSON.stringify(entry));
await writeFile(join(next, "licences.txt"), await licences());
await rm(BUILT, { recursive: true, force: true });
await rename(next, BUILT);

const { script, modules, style } = entry.page;
const first = [script, ...modules, style].reduce((sum, name) => sum + size(name), 0);
const largest = Math.max(
  ...built.outputFiles
    .filter(({ path }) => basename(path) !== script)
    .map(({ path }) => size(basename(path))),
);
process.stdout.write(`the page: ${Math.ceil(first / 1024)} KB gzipped before the first row, in ${BUILT}\n`);
if (first > FIRST_BYTES || largest > PART_BYTES) {
  process.stderr.write(
    `more than ${FIRST_BYTES / 1024} KB before the first row, or ${PART_BYTES / 1024} KB in a part\n`,
  );
  process.exitCode = 1;
}

function firstModules(name, seen = new Set()) {
  for (const each of outputs[name].imports) {
    if (each.kind === "import-statement" && !each.external && !seen.has(each.path)) {
      seen.add(each.path);
      firstModules(each.path, seen);
    }
  }
  return [...seen];
}

function size(name) {
  return packed(built.outputFiles.find((file) => basename(file.path) === name).contents).length;
}

function packed(contents) {
  return gzipSync(contents, { level: constants.Z_BEST_COMPRESSION });
}

async function licences() {
  const packages = new Set();
  for (const input of Object.keys(built.metafile.inputs)) {
    const found = /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(input);
    if (found) packages.add(found[1]);
  }
  const texts = [];
  for (const name of [...packages].sort()) {
    const directory = join(HERE, "node_modules", name);
    const { version, license } = JSON.parse(await readFile(join(directory, "package.json"), "utf8"));
    const text = await Promise.any(
      ["LICENSE", "LICENSE.md", "LICENSE.txt", "license"].map((each) =>
        readFile(join(directory, each), "utf8"),
      ),
    );
    texts.push(`${name} ${version} (${license})\n\n${text.trim()}\n`);
  }
  return texts.join(`\n${"-".repeat(80)}\n\n`);
}
