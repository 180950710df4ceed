import js from "@eslint/js";
import { defineConfig } from "eslint/config";
import globals from "globals";
import tseslint from "typescript-eslint";

/** Time, randomness, the process and the console reach the code through a port, never a global. */
const AMBIENT_GLOBALS = ["setTimeout", "setInterval", "performance", "process", "console"];

export default defineConfig(
  { ignores: ["**/dist/", "coverage/", "bench-results/"] },
  js.configs.recommended,
  { files: ["**/*.{js,mjs,cjs}"], languageOptions: { globals: globals.node } },
  {
    files: ["**/*.ts"],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: {
      parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname },
    },
    rules: {
      "@typescript-eslint/switch-exhaustiveness-check": "error",
      "@typescript-eslint/consistent-type-imports": "error",
      "@typescript-eslint/explicit-module-boundary-types": "error",
      "@typescript-eslint/restrict-template-expressions": [
        "error",
        { allowNumber: true, allowBoolean: true },
      ],
      // A `while (true)` around an incremental parser is the clearest form of it.
      "@typescript-eslint/no-unnecessary-condition": [
        "error",
        { allowConstantLoopConditions: "only-allowed-literals" },
      ],
    },
  },
  {
    files: ["packages/*/src/**/*.ts"],
    ignores: [
      "packages/common/src/clock.ts",
      "packages/common/src/random.ts",
      "packages/*/src/main.ts",
      "packages/server/src/workers/main.ts",
      "packages/bench/src/**/*.ts",
    ],
    rules: {
      "no-restricted-globals": ["error", ...AMBIENT_GLOBALS],
      "no-restricted-properties": [
        "error",
        { object: "Date", property: "now" },
        { object: "Math", property: "random" },
      ],
    },
  },
  {
    // Parsers index buffers whose bounds they have just checked; `!` says so at no cost.
    files: [
      "packages/common/src/{packet,hpack,http2}/**/*.ts",
      "packages/common/src/send-queue.ts",
    ],
    rules: { "@typescript-eslint/no-non-null-assertion": "off" },
  },
  {
    files: ["**/test/**/*.ts"],
    rules: {
      "@typescript-eslint/no-floating-promises": [
        "error",
        {
          allowForKnownSafeCalls: [
            { from: "package", package: "node:test", name: ["describe", "it", "test"] },
          ],
        },
      ],
      "@typescript-eslint/explicit-module-boundary-types": "off",
      "@typescript-eslint/no-non-null-assertion": "off",
    },
  },
);
