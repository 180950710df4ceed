/**
 * Every event the programs log. A name is a contract with whoever alerts on it: events are added,
 * never renamed; the fields around them may grow.
 */
export type LogEvent =
  | "program.starting"
  | "program.started"
  | "program.stopping"
  | "program.stopped"
  | "shutdown.draining"
  | "shutdown.waiting"
  | "shutdown.cutting"
  | "program.failed"
  | "server.identity"
  | "agent.identity"
  | "flag.ignored"
  | "flag.deprecated"
  | "environment.ignored"
  | "listener.opened"
  | "listener.failed"
  | "listener.rejected"
  | "tls.warning"
  | "tunnel.connecting"
  | "tunnel.opened"
  | "tunnel.lost"
  | "tunnel.refused"
  | "tunnel.duplicate"
  | "tunnel.draining"
  | "tunnel.surplus"
  | "tunnel.unread"
  | "servers.found"
  | "servers.ignored"
  | "servers.lookup_failed"
  | "token.unreviewed"
  | "token.reviewing"
  | "lease.published"
  | "lease.removed"
  | "lease.failed"
  | "servers.counted"
  | "packet.unexpected"
  | "dial.failed"
  | "dial.retried"
  | "connection.opened"
  | "connection.closed"
  | "worker.started"
  | "worker.lost"
  | "worker.failed"
  | "worker.unanswered"
  | "worker.none"
  | "log.dropped"
  | "log.truncated"
  | "log.failed"
  | "log.reopened"
  | "ops.failed";

/** Flat on purpose: nested objects end up unsearchable. Payload bytes are never logged. */
export type LogFields = Readonly<Record<string, string | number | boolean | undefined>>;

/**
 * Where the programs write what happens.
 *
 * Levels: `error` = someone must act; `warn` = a limit was hit or a peer misbehaved; `info` = a
 * tunnel or a listener changed; `debug` = a connection changed.
 */
export interface Logger {
  debug(event: LogEvent, fields?: LogFields): void;
  info(event: LogEvent, fields?: LogFields): void;
  warn(event: LogEvent, fields?: LogFields): void;
  error(event: LogEvent, error: unknown, fields?: LogFields): void;

  /** Whether `debug` writes anything, so that hot paths can skip building its fields. */
  readonly debugEnabled: boolean;

  /** A logger that adds `fields` to every line, e.g. `{ agentId }`. */
  child(fields: LogFields): Logger;
}

/** A logger that drops everything. */
export const silentLogger: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  debugEnabled: false,
  child: () => silentLogger,
};
