import type { ServerAddress } from "./server-address.ts";

/** Where servers answer. */
export interface AddressSource {
  /**
   * Whether any server may answer at any of the addresses, because something before them spreads
   * connections; otherwise each address is one server.
   */
  readonly isShared: boolean;
  readonly current: readonly ServerAddress[];
  /** @param onChange - {@link current} is another list now. */
  start(onChange: () => void): void;
  /** A server could not be reached, or was lost: the addresses may have changed. */
  suspect(): void;
  stop(): void;
}

/** Addresses that were given once and for all. */
export class FixedAddresses implements AddressSource {
  readonly isShared: boolean;
  readonly current: readonly ServerAddress[];

  constructor(addresses: readonly ServerAddress[], { isShared }: { readonly isShared: boolean }) {
    this.current = addresses;
    this.isShared = isShared;
  }

  start(): void {
    // They never change.
  }

  suspect(): void {
    // There is nobody to ask.
  }

  stop(): void {
    // Nothing was started.
  }
}
