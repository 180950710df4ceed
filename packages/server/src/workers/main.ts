// What a worker process runs; the primary starts it.

import { runWorker } from "./worker.ts";

runWorker(process);
