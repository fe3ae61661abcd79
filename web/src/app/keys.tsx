// Keys that work on every page, and the list of them: `?` shows it, `g` and a letter go to a page, `/` searches.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Dialog } from "../parts/dialog.tsx";
import { go } from "../state/place.ts";
import { PAGES } from "./routes.tsx";

const KEYS: [string, string][] = [
  ["j k ↓ ↑", "Move in a table"],
  ["Enter", "Open the row"],
  ["x", "Select the row"],
  ["Shift ↓ ↑", "Select rows"],
  ["Alt ↓ ↑", "Move the row, in a queue"],
  ["Ctrl A", "Select all that match"],
  ["Esc", "Select none, close"],
  ["/", "Search"],
  ["?", "These keys"],
];
const SEQUENCE_MS = 1500;

export function Keys(): JSX.Element | null {
  const [open, setOpen] = useState(false);
  useEffect(() => {
    let begun = 0;
    function onKeyDown(event: KeyboardEvent): void {
      const element = event.target instanceof HTMLElement ? event.target : null;
      const types = element?.matches("input:not([type=checkbox]), textarea, select, [contenteditable]");
      if (types || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]"))
        return;
      const page =
        begun + SEQUENCE_MS > Date.now() ? PAGES.find(({ keys }) => keys === `g ${event.key}`) : undefined;
      begun = event.key === "g" ? Date.now() : 0;
      if (page) go(page.name === "runs" ? "/" : `/${page.name}`);
      else if (event.key === "?") setOpen(true);
      else if (event.key === "/") document.querySelector<HTMLElement>("[type=search]")?.focus();
      else return;
      event.preventDefault();
    }
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, []);
  if (!open) return null;
  const pages = PAGES.map(({ title, keys }): [string, string] => [keys, title]);
  return (
    <Dialog title="Keys" onClose={() => setOpen(false)}>
      <dl class="keys">
        {[...KEYS, ...pages].map(([keys, text]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
      <form method="dialog" class="dialog-buttons">
        <button type="submit" class="button">
          Close
        </button>
      </form>
    </Dialog>
  );
}
