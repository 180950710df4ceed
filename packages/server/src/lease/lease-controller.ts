import { LeaseCollector } from "./lease-collector.ts";
import type { LeaseOptions, LeasePorts } from "./lease-ports.ts";
import { LeasePublisher } from "./lease-publisher.ts";

/** This server's lease, and the removal of those that others have left behind. */
export class LeaseController {
  readonly #publisher: LeasePublisher;
  readonly #collector: LeaseCollector;

  constructor(options: LeaseOptions, ports: LeasePorts) {
    this.#publisher = new LeasePublisher(options, ports);
    this.#collector = new LeaseCollector(options, ports);
  }

  start(): void {
    this.#publisher.start();
    this.#collector.start();
  }

  /** Remove our lease, in two seconds at most. Never rejects. */
  async stop(): Promise<void> {
    this.#collector.stop();
    await this.#publisher.stop();
  }
}
