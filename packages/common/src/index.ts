export { systemClock } from "./clock.ts";
export type { CancelTimer, Clock } from "./clock.ts";
export { silentLogger } from "./log/logger.ts";
export type { LogEvent, LogFields, Logger } from "./log/logger.ts";
export { systemRandom } from "./random.ts";
export type { Random } from "./random.ts";
