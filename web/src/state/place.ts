// The place of the page: its path and query, as signals. All state that a link should carry is here.

import { computed, signal } from "@preact/signals";

/** Values of the query: a list replaces the present values, null or [] removes the name. */
export type QueryChange = Record<string, string | string[] | null>;

const location = signal(new URL(globalThis.location.href));

export const path = computed(() => location.value.pathname);
export const query = computed(() => location.value.searchParams);

/** Go to a link of this page. `replace`: the former place is not in the history. */
export function go(href: string, { replace = false } = {}): void {
  const next = new URL(href, location.peek());
  if (next.href === location.peek().href) return;
  history[replace ? "replaceState" : "pushState"](null, "", next);
  const moved = next.pathname !== location.peek().pathname;
  location.value = next;
  if (moved) scrollTo(0, 0);
}

/** The link to the present path with other values in its query. */
export function withQuery(change: QueryChange): string {
  const next = new URLSearchParams(query.value);
  for (const [name, value] of Object.entries(change)) {
    next.delete(name);
    for (const each of Array.isArray(value) ? value : value === null ? [] : [value]) next.append(name, each);
  }
  const text = next.toString();
  return text ? `${path.value}?${text}` : path.value;
}

/** Change values of the query. Typing replaces the place, a choice adds one to the history. */
export function setQuery(change: QueryChange, { replace = false } = {}): void {
  go(withQuery(change), { replace });
}

/** Follow links of this page without loading it again, and the browser's own Back and Forward. */
export function followLinks(): void {
  addEventListener("popstate", () => {
    location.value = new URL(globalThis.location.href);
  });
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    const modified = event.metaKey || event.ctrlKey || event.shiftKey || event.altKey;
    if (!link || event.button !== 0 || modified || event.defaultPrevented) return;
    const inside = link.origin === globalThis.location.origin && !link.pathname.startsWith("/api/");
    if (!inside || link.target || link.hasAttribute("download")) return;
    event.preventDefault();
    go(link.href);
  });
}

/** A list with a value, or without it if it was there. */
export function toggled(list: string[], value: string): string[] {
  return list.includes(value) ? list.filter((each) => each !== value) : [...list, value];
}
