#!/usr/bin/env node
// Starts the build of this package; its source is src/main.ts.

import { fileURLToPath } from "node:url";

try {
  await import("../dist/main.js");
} catch (error) {
  if (error?.code !== "ERR_MODULE_NOT_FOUND") throw error;
  const root = fileURLToPath(new URL("../../../", import.meta.url));
  console.error(`reachback-bench is not built: ${error.message.split("\n")[0]}`);
  console.error(`Run \`npm ci\`, or \`npm run build\` if dependencies are installed, in ${root}`);
  process.exit(1);
}
