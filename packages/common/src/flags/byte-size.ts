import type { FlagType } from "./flag-type.ts";
import { InvalidValueError } from "./invalid-value-error.ts";
import { goQuote } from "./go-quote.ts";

const UNITS: Readonly<Record<string, number>> = { "": 1, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30 };

/** Bytes, written as Kubernetes does: `65536`, `64Ki`, `16Mi`, `1Gi`. */
export const byteSizeType: FlagType<number> = {
  name: "size",
  placeholder: "bytes",
  parse(text) {
    const [, digits, unit = ""] = /^([0-9]+)(Ki|Mi|Gi)?$/.exec(text) ?? [];
    const bytes = Number(digits) * (UNITS[unit] ?? NaN);
    if (!Number.isSafeInteger(bytes)) {
      throw new InvalidValueError(
        `${goQuote(text)} is not a number of bytes: write 65536, 64Ki, 16Mi or 1Gi`,
      );
    }
    return bytes;
  },
  format(bytes) {
    const unit = ["Gi", "Mi", "Ki"].find((name) => bytes > 0 && bytes % (UNITS[name] ?? 1) === 0);
    return unit === undefined ? String(bytes) : `${bytes / (UNITS[unit] ?? 1)}${unit}`;
  },
};
