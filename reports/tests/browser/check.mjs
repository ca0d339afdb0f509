// Opens report pages in headless Chromium, in both themes: no console message, no violation of axe-core, one screenshot each.
//
//   node check.mjs FOLDER_FOR_SCREENSHOTS PAGE.html…
//
// A page forbids scripts by its Content-Security-Policy, so axe-core is put into a copy without it; console messages are those of
// the page as it is.

import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [shots, ...pages] = process.argv.slice(2);
if (!shots || pages.length === 0) {
  console.error("usage: node check.mjs FOLDER_FOR_SCREENSHOTS PAGE.html…");
  process.exit(2);
}
const chromium = process.env.CHROMIUM ?? "chromium";
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const scratch = mkdtempSync(join(tmpdir(), "fidelity-browser-"));
const THEMES = { light: [], dark: ["--force-dark-mode", "--blink-settings=preferredColorScheme=0"] };

const run = `
addEventListener("load", async () => {
  document.querySelectorAll("details").forEach((it) => { it.open = true; });
  // One cell of the tokens, as by its key; no script of the page's own does it.
  const cell = document.querySelector("button[popovertarget]");
  cell?.click();
  const opens = !cell || document.querySelector(":popover-open") !== null;
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  let found;
  try {
    const results = await axe.run();
    found = { dark, opens, passes: results.passes.length,
      violations: results.violations.map((it) => ({ id: it.id, help: it.help, nodes: it.nodes.slice(0, 3).map((node) => node.html) })) };
  } catch (error) {
    found = { dark, opens, passes: 0, violations: [{ id: "axe did not run", help: String(error), nodes: [] }] };
  }
  const told = document.createElement("pre");
  told.id = "axe-results";
  told.textContent = btoa(unescape(encodeURIComponent(JSON.stringify(found))));
  document.body.replaceChildren(told);
});`;

function browse(theme, more, page) {
  const common = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", `--user-data-dir=${join(scratch, theme)}`];
  const result = spawnSync(chromium, [...common, ...THEMES[theme], ...more, pathToFileURL(page).href], { encoding: "utf8", maxBuffer: 1 << 28, timeout: 120_000 });
  if (result.error || result.status !== 0) {
    throw new Error(`${chromium} failed on ${page}: ${result.error ?? result.stderr}`);
  }
  return result;
}

let failures = 0;
function check(page) {
  const text = readFileSync(page, "utf8");
  const policy = /<meta http-equiv="Content-Security-Policy"[^>]*>/;
  if (!policy.test(text)) throw new Error(`${page} has no Content-Security-Policy`);
  const copy = join(scratch, "page.html");
  // As functions, for both texts hold dollar signs.
  writeFileSync(copy, text.replace(policy, () => "").replace("</head>", () => `<script>${axe}</script><script>${run}</script></head>`));
  for (const theme of Object.keys(THEMES)) {
    const shot = join(shots, `${basename(dirname(page))}-${basename(page, ".html")}-${theme}.png`);
    const { stderr } = browse(theme, ["--enable-logging=stderr", "--v=0", "--window-size=1200,3200", `--screenshot=${shot}`], page);
    const messages = stderr.split("\n").filter((line) => line.includes(":CONSOLE"));
    const dom = browse(theme, ["--virtual-time-budget=60000", "--dump-dom"], copy).stdout;
    const encoded = /<pre id="axe-results">([^<]*)<\/pre>/.exec(dom);
    if (!encoded) throw new Error(`${page}: axe-core gave no results`);
    const found = JSON.parse(Buffer.from(encoded[1], "base64").toString("utf8"));
    const wrong = [
      ...messages.map((line) => `console: ${line}`),
      ...found.violations.map((it) => `axe ${it.id}: ${it.help}\n      ${it.nodes.join("\n      ")}`),
      ...(found.dark === (theme === "dark") ? [] : [`the theme is not ${theme}`]),
      ...(found.opens ? [] : ["a token does not open"]),
      ...(found.passes > 10 ? [] : [`axe-core passed only ${found.passes} rules: it saw no page`]),
    ];
    failures += wrong.length;
    console.log(`${wrong.length ? "FAIL" : "ok  "} ${theme.padEnd(5)} ${page} (${found.passes} rules passed)`);
    wrong.forEach((line) => console.log(`    ${line}`));
  }
}

try {
  mkdirSync(shots, { recursive: true });
  execFileSync(chromium, ["--version"], { stdio: "ignore" });
  pages.map((page) => resolve(page)).forEach(check);
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
process.exit(failures ? 1 : 0);
