// Files that come from the server in parts, saved as one.

/** Save parts as a file of this name; `onPart` gets the number of bytes so far. */
export async function save(
  name: string,
  parts: AsyncIterable<Blob>,
  onPart: (bytes: number) => void,
): Promise<void> {
  let found = new Blob();
  for await (const part of parts) {
    found = new Blob([found, part]);
    onPart(found.size);
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(found);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
