// Keys that work on every page, and the list of them: `?` shows it, `g` and a letter go to a page, `/` searches.

import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { type Fact, Facts } from "../parts/facts.tsx";
import { useForm } from "../parts/form.tsx";
import { go } from "../state/place.ts";
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

export function Keys(): JSX.Element | null {
  const { show, dialog } = useForm(() => {});
  useEffect(() => {
    let begun = 0;
    function onKeyDown(event: KeyboardEvent): void {
      const { target, ctrlKey, metaKey, altKey } = event;
      const typed = "input:not([type=checkbox]), textarea, select, [contenteditable]";
      const types = target instanceof Element && target.matches(typed);
      if (types || ctrlKey || metaKey || altKey || document.querySelector("dialog[open]")) return;
      const after = begun + SEQUENCE_MS > Date.now();
      const page = after && LINKS.find(({ key }) => key === event.key);
      begun = event.key === "g" ? Date.now() : 0;
      if (page) go(page.href);
      else if (event.key === "?") show({ title: "Keys", text: KEY_LIST });
      else if (event.key === "/") document.querySelector<HTMLElement>("[type=search]")?.focus();
      else return;
      event.preventDefault();
    }
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, []);
  return dialog;
}
