// HEALTHCHECK of the images: is 0 if HEALTH_PATH (default: /healthz) answers 200. HEALTH_PORT is the
// program's health port, to be changed with it.

import { get } from "node:http";

const request = get({
  host: "127.0.0.1",
  port: process.env.HEALTH_PORT,
  path: process.env.HEALTH_PATH ?? "/healthz",
  timeout: 2_000,
});
request.on("response", (response) => {
  process.exit(response.statusCode === 200 ? 0 : 1);
});
request.on("timeout", () => {
  request.destroy(new Error("no answer for 2 s"));
});
request.on("error", (error) => {
  console.error(`health check on port ${process.env.HEALTH_PORT}: ${error.message}`);
  process.exit(1);
});
