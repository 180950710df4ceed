import { getSystemErrorMap } from "node:util";

/** Where libuv words an error in its own way: what the C library, and so Go, says instead. */
const C_LIBRARY_TEXTS: Readonly<Record<string, string>> = {
  EADDRNOTAVAIL: "cannot assign requested address",
  EAFNOSUPPORT: "address family not supported by protocol",
  EHOSTUNREACH: "no route to host",
  EISDIR: "is a directory",
  EMFILE: "too many open files",
  ENFILE: "too many open files in system",
};

/**
 * What the operating system calls this failure, e.g. `address already in use`: the phrase that ends
 * upstream's messages. Errors that do not come from a system call give their message.
 */
export function systemErrorText(error: NodeJS.ErrnoException): string {
  const { code, errno } = error;
  if (code === undefined) return error.message;
  const known = C_LIBRARY_TEXTS[code];
  if (known !== undefined) return known;
  return (errno === undefined ? undefined : getSystemErrorMap().get(errno)?.[1]) ?? error.message;
}
