export { ManualClock } from "./manual-clock.ts";
export { RecordingLogger } from "./recording-logger.ts";
export type { RecordedLine } from "./recording-logger.ts";
export { SeededRandom } from "./seeded-random.ts";
export { readExposition } from "./exposition-reader.ts";
export type { ExposedSample } from "./exposition-reader.ts";
