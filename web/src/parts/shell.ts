// Commands as a person types them.

/** A command line of words, quoted for a shell; false and null are left out. */
export function commandLine(...words: (string | false | null | undefined)[]): string {
  const given = words.filter((word): word is string => typeof word === "string");
  return ["tarmac", ...given.map(quoted)].join(" ");
}

/** An option with its value; no words without one. */
export function option(name: string, value: string | null | undefined): (string | false)[] {
  return value ? [name, value] : [false];
}

function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
