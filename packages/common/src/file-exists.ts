import { statSync } from "node:fs";

/**
 * Whether there is something at `path`. Only a plain "no such file" is a no: what cannot be looked
 * at, for want of permission say, is left for the attempt to open it, whose error says more.
 */
export type FileExists = (path: string) => boolean;

export const systemFileExists: FileExists = (path) => {
  try {
    return statSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    return true;
  }
};
