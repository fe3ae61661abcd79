// Controls of pages: buttons, inputs whose value is in the place, choices, and menus of them.

import type { ComponentChildren, ComponentProps } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { type QueryChange, query, setQuery, toggled } from "../state/place.ts";
import { count } from "./text.ts";

interface ButtonProps extends Pick<ComponentProps<"button">, "title" | "disabled" | "onClick"> {
  label: ComponentChildren;
  /** The name for screen readers, where the label is a symbol. */
  name?: string;
  class?: string;
  /** Whether it is pressed, if it stays so. */
  on?: boolean;
  /** The change of the query that it makes. */
  change?: QueryChange;
}

export function Button({ label, name, on, change, ...others }: ButtonProps) {
  return (
    <button
      type="button"
      class={on === undefined ? "button" : "button toggle"}
      aria-label={name}
      aria-pressed={on}
      onClick={() => change && setQuery(change)}
      {...others}
    >
      {label}
    </button>
  );
}

/** A link that looks like a button. */
export function Link({ label, ...others }: ComponentProps<"a"> & { label: string }) {
  return (
    <a class="button" {...others}>
      {label}
    </a>
  );
}

interface InputProps extends Pick<ComponentProps<"input">, "placeholder" | "step" | "max" | "onKeyDown"> {
  type: "search" | "number" | "range";
  /** Its name in the query. */
  name: string;
  label: string;
  /** The value that is not in the query. */
  usual?: string;
  set?: typeof setQuery;
}

/** An input of a value in the place. Typing replaces the place. */
export function Input({ name, label, usual = "", set = setQuery, ...others }: InputProps) {
  return (
    <input
      aria-label={label}
      value={query.value.get(name) ?? usual}
      onInput={({ currentTarget: { value } }) =>
        set({ [name]: value === usual ? null : value }, { replace: true })
      }
      {...(others as object)}
    />
  );
}

interface ChoicesProps {
  /** Each with its text and a number. */
  of: [value: string, text: string, number?: number][];
  chosen: string[];
  onChoose: (chosen: string[]) => void;
}

/** Any of several values. */
export function Choices({ of, chosen, onChoose }: ChoicesProps) {
  return of.map(([value, text, number]) => (
    <label key={value} class="choice">
      <input
        type="checkbox"
        checked={chosen.includes(value)}
        onChange={() => onChoose(toggled(chosen, value))}
      />
      <span>{text}</span>
      <span class="quiet">{number !== undefined && count(number)}</span>
    </label>
  ));
}

interface MenuProps extends Pick<ButtonProps, "label" | "name" | "class"> {
  /** Keep the menu open after a choice. */
  stays?: boolean;
  children: ComponentChildren;
}

/** Links, choices or commands below a button, which exist while it is open. The browser closes it. */
export function Menu({ label, name, class: kind = "button", stays, children }: MenuProps) {
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const items = () => [...(list.current?.querySelectorAll<HTMLElement>("a, button, input") ?? [])];
  const [open, setOpen] = useState(false);
  useEffect(() => {
    if (open) (items()[0] ?? list.current)?.focus({ preventScroll: true });
  }, [open]);

  function onKeyDown(event: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined) return;
    const all = items();
    const at = all.indexOf(document.activeElement as HTMLElement);
    all.at((at + step) % all.length)?.focus();
    event.preventDefault();
    event.stopPropagation();
  }

  return (
    <>
      <button type="button" class={kind} popovertarget={id} aria-label={name}>
        {label}
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
        onClick={() => stays || list.current?.hidePopover()}
      >
        {open && children}
      </div>
    </>
  );
}
