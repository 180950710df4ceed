import { headerValues } from "@reachback/common";
import type { HeaderList } from "@reachback/common";

const SCHEME = "Bearer ";

/** Many times what a service account's token has; each that waits is kept in memory. */
const MAX_TOKEN_LENGTH = 8 * 1024;

/** An agent's call that carries no token that could be reviewed. */
export class BearerTokenError extends Error {}

/** @throws {BearerTokenError} with upstream's text if there is not exactly one bearer token. */
export function bearerTokenFrom(metadata: HeaderList): string {
  const values = headerValues(metadata, "authorization");
  const [value] = values;
  if (value === undefined) {
    throw new BearerTokenError("Authentication context was not found in metadata");
  }
  if (values.length > 1) {
    throw new BearerTokenError(`too many (${values.length}) tokens are received`);
  }
  if (!value.startsWith(SCHEME)) {
    throw new BearerTokenError('received token does not have "Bearer " prefix');
  }
  if (value.length > SCHEME.length + MAX_TOKEN_LENGTH) {
    throw new BearerTokenError(`the token is longer than ${MAX_TOKEN_LENGTH} characters`);
  }
  return value.slice(SCHEME.length);
}
