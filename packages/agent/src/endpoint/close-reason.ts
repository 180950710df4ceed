/**
 * Why a connection ended. A closed set: it labels metrics and log lines, and tests rely on it.
 *
 * - `server_closed`: the server asked for it (CLOSE_REQ), the frontend being done.
 * - `endpoint_closed`: the endpoint finished, in an orderly way.
 * - `endpoint_error`: the endpoint's connection failed, a reset for instance.
 * - `endpoint_stalled`: the endpoint had enough queued and took nothing of it for too long.
 * - `tunnel_lost`: the tunnel ended under it.
 */
export type CloseReason =
  "server_closed" | "endpoint_closed" | "endpoint_error" | "endpoint_stalled" | "tunnel_lost";
