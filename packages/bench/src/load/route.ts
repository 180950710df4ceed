/** How a connection to the endpoint is opened on one of the paths that are compared. */
export type Route =
  /** A TCP port that leads straight to the endpoint. */
  | { readonly kind: "tcp"; readonly port: number }
  /** A Unix socket that leads straight to the endpoint. */
  | { readonly kind: "unix"; readonly path: string }
  /** HTTP CONNECT on a Unix socket. */
  | { readonly kind: "connect"; readonly path: string; readonly endpoint: string }
  /** A gRPC frontend on a Unix socket, through the client library. */
  | { readonly kind: "grpc"; readonly path: string; readonly endpoint: string };
