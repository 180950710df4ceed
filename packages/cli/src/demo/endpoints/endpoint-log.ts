/** Writes a line to an endpoint's log. */
export type EndpointLog = (
  event: string,
  fields?: Readonly<Record<string, string | number | undefined>>,
) => void;
