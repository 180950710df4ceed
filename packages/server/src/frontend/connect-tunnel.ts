import type { Socket } from "node:net";
import { SocketEnd } from "@reachback/common";
import type { Clock, SocketEndLimits } from "@reachback/common";
import type { CloseReason } from "../dial/close-reason.ts";
import type { Connection } from "../dial/connection.ts";
import type { DialBroker } from "../dial/dial-broker.ts";
import type { DialFailure, DialRequest, FrontendEnd } from "../dial/frontend-end.ts";
import { CONNECTION_ESTABLISHED, dialFailureAnswer } from "./connect-answers.ts";

/** Bytes of a client in a hurry that are kept while its dial goes on; then it is not read. */
const MAX_EARLY_BYTES = 64 * 1024;

/** A CONNECT client's socket, from its request on: first a dial, then a tunnel. */
export class ConnectTunnel implements FrontendEnd {
  readonly #client: SocketEnd;
  #connection: Connection | undefined;
  #isDialed = false;
  /** What the client sent before the dial was through. */
  #early: Buffer[] = [];
  #earlyBytes = 0;
  /** Bytes of our own answer that the client has not taken; no part of the connection. */
  #answerBytes = 0;
  /** Whether the client is not read because the agent, or the early bytes, are behind. */
  #isPaused = false;

  constructor(socket: Socket, limits: SocketEndLimits, clock: Clock, onClosed: () => void) {
    this.#client = new SocketEnd(socket, limits, clock, {
      data: (piece) => {
        this.#fromClient(piece);
      },
      ended: () => {
        // Before the 200, an end is all that a client can do to take its request back.
        // Later it closes the connection at once, as upstream does, if the agent knows no half-close.
        if (!this.#isDialed || this.#connection?.finish() !== true) {
          this.#clientLeft("client_closed");
        }
      },
      taken: (bytes) => {
        const answerBytes = Math.min(bytes, this.#answerBytes);
        this.#answerBytes -= answerBytes;
        this.#connection?.taken(bytes - answerBytes);
      },
      closed: (error) => {
        this.#clientLeft(error === undefined ? "client_closed" : "client_lost");
        this.#connection?.frontendGone();
        onClosed();
      },
    });
  }

  /** @param head - What came in one segment with the request: the tunnel's first bytes. */
  dial(request: DialRequest, head: Buffer, broker: DialBroker): void {
    if (head.length > 0) this.#fromClient(head);
    this.#connection = broker.dial(request, this);
    // The client is read while it waits, or nobody would notice that it leaves.
    if (!this.#isPaused) this.#client.resumeReading();
  }

  /** Cut the client off, at once. */
  destroy(): void {
    this.#client.reset();
  }

  // FrontendEnd

  dialed(): void {
    this.#isDialed = true;
    this.#answerBytes = CONNECTION_ESTABLISHED.length;
    this.#client.write(Buffer.from(CONNECTION_ESTABLISHED));
    const early = this.#early;
    this.#early = [];
    this.agentReady();
    for (const piece of early) this.#toAgent(piece);
  }

  dialFailed(failure: DialFailure): void {
    const answer = dialFailureAnswer(failure);
    if (answer !== "") this.#client.write(Buffer.from(answer));
    this.#client.close();
  }

  reportTaken(): void {
    this.#client.reportTaken();
  }

  receive(piece: Buffer): void {
    this.#client.write(piece);
  }

  finish(): boolean {
    this.#client.finish();
    return true;
  }

  agentReady(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#client.resumeReading();
  }

  closed(_reason: CloseReason, error: string): void {
    // What ended too early must not look complete to the client.
    if (error === "") this.#client.close();
    else this.#client.resetBehindData();
  }

  #fromClient(piece: Buffer): void {
    if (this.#isDialed) {
      this.#toAgent(piece);
      return;
    }
    this.#early.push(Buffer.from(piece));
    this.#earlyBytes += piece.length;
    if (this.#earlyBytes >= MAX_EARLY_BYTES) this.#pause();
  }

  #toAgent(piece: Buffer): void {
    if (this.#connection?.send(piece) === false) this.#pause();
  }

  #pause(): void {
    this.#isPaused = true;
    this.#client.pauseReading();
  }

  #clientLeft(reason: CloseReason): void {
    if (this.#connection === undefined || this.#connection.isClosed) this.#client.close();
    else this.#connection.abandon(reason);
    // A dial that is abandoned tells nobody.
    if (!this.#isDialed) this.#client.close();
  }
}
