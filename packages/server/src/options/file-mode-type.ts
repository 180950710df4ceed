import { InvalidValueError } from "@reachback/common";
import type { FlagType } from "@reachback/common";

/** Permission bits of a file, written in octal as for chmod. */
export const fileModeType: FlagType<number> = {
  name: "mode",
  placeholder: "octal",
  parse(text) {
    if (!/^(?:0o?)?[0-7]{3}$/.test(text)) {
      throw new InvalidValueError("must be permissions in octal, such as 0770");
    }
    return Number.parseInt(text.slice(-3), 8);
  },
  format: (value) => value.toString(8).padStart(4, "0"),
};
