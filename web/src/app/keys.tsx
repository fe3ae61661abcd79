// Keys that work on every page, and the list of them: `?` shows it, `g` and a letter go to a page, `/` searches.

import { show } from "../parts/form.tsx";
import { type Fact, Facts } from "../parts/shown.tsx";
import { go } from "../state/place.ts";
import { user } from "../state/session.ts";
import { LINKS } from "./routes.tsx";

const KEYS: Fact[] = [
  ["j k ↓ ↑", "Move in a table"],
  ["Enter", "Open the row"],
  ["x", "Select the row"],
  ["Shift ↓ ↑", "Select rows"],
  ["Alt ↓ ↑", "Move the row, in a queue"],
  ["Ctrl A", "Select all that match"],
  ["Esc", "Select none, close"],
  ["/", "Search"],
  ["?", "These keys"],
  ...LINKS.map(({ key, title }): Fact => [`g ${key}`, title]),
];
const KEY_LIST = (
  <div class="facts">
    <Facts facts={KEYS} />
  </div>
);
const SEQUENCE_MS = 1500;
const TYPED = "input:not([type=checkbox]), textarea, select, [contenteditable]";

let begun = 0; // when `g` was pressed

export function followKeys(): void {
  document.addEventListener("keydown", (event) => {
    const { target, key, ctrlKey, metaKey, altKey } = event;
    const types = target instanceof Element && target.matches(TYPED);
    if (types || ctrlKey || metaKey || altKey || document.querySelector("dialog[open]")) return;
    if (user.peek() === null) return;
    const page = begun + SEQUENCE_MS > Date.now() && LINKS.find((link) => link.key === key);
    begun = key === "g" ? Date.now() : 0;
    if (page) go(page.href);
    else if (key === "?") show({ title: "Keys", text: KEY_LIST });
    else if (key === "/") document.querySelector<HTMLElement>("[type=search]")?.focus();
    else return;
    event.preventDefault();
  });
}
