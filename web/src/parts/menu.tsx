// A menu below a button: of links, choices or commands, which exist while it is open. The browser closes it with
// Escape or a click elsewhere.

import type { ComponentChildren, JSX } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";

interface Props {
  label: ComponentChildren;
  /** The name for screen readers, where the label is a symbol. */
  name?: string;
  class?: string;
  /** Keep the menu open after a choice. */
  stays?: boolean;
  children: ComponentChildren;
}

const MARGIN_PX = 4;

export function Menu(props: Props): JSX.Element {
  const id = useId();
  const button = useRef<HTMLButtonElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const items = () => [...(list.current?.querySelectorAll<HTMLElement>("a, button, input") ?? [])];

  const [open, setOpen] = useState(false);

  useLayoutEffect(() => {
    if (!open || !list.current) return;
    const observer = new ResizeObserver(place);
    observer.observe(list.current);
    return () => observer.disconnect();
  }, [open]);

  function place(): void {
    if (!button.current || !list.current) return;
    const below = button.current.getBoundingClientRect();
    const { width, height } = list.current.getBoundingClientRect();
    const left = Math.max(MARGIN_PX, Math.min(below.left, innerWidth - width - MARGIN_PX));
    const top = below.bottom + height > innerHeight ? Math.max(MARGIN_PX, below.top - height) : below.bottom;
    list.current.style.left = `${left}px`;
    list.current.style.top = `${top}px`;
    const { activeElement } = document;
    if (activeElement === list.current || !list.current.contains(activeElement))
      (items()[0] ?? list.current).focus({ preventScroll: true });
  }

  function onKeyDown(event: KeyboardEvent): void {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step === 0) return;
    const all = items();
    const at = all.indexOf(document.activeElement as HTMLElement);
    all[(at + step + all.length) % all.length]?.focus();
    event.preventDefault();
    event.stopPropagation();
  }

  return (
    <>
      <button
        ref={button}
        type="button"
        class={props.class ?? "button"}
        popovertarget={id}
        aria-label={props.name}
      >
        {props.label}
      </button>
      {/* biome-ignore lint/a11y/noStaticElementInteractions: its buttons and links have the keys */}
      <div
        ref={list}
        id={id}
        popover="auto"
        class="menu-list"
        tabIndex={-1}
        onBeforeToggle={(event) => setOpen(event.newState === "open")}
        onKeyDown={onKeyDown}
        onClick={() => !props.stays && list.current?.hidePopover()}
      >
        {open && props.children}
      </div>
    </>
  );
}
