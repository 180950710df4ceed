import { errorAnswer, redirectAnswer } from "./go-answers.ts";
import type { OpsHandler, OpsRequest, OpsResponse, OpsRoute } from "./ops-route.ts";
import { cleanPath } from "./request-target.ts";

/** Finds the handler of a request, with the redirects and the 404 of Go's HTTP server. */
export class OpsRouter {
  readonly #exact = new Map<string, OpsHandler>();
  /** The longest first, so that the first that fits is the most specific. */
  readonly #below: readonly OpsRoute[];

  constructor(routes: readonly OpsRoute[]) {
    for (const { path, handler } of routes) this.#exact.set(path, handler);
    this.#below = routes
      .filter(({ path }) => path.endsWith("/"))
      .sort((one, other) => other.path.length - one.path.length);
  }

  /** @param request - with the path as it was sent. */
  answer(request: OpsRequest): OpsResponse | Promise<OpsResponse> {
    const path = cleanPath(request.path);
    if (path !== request.path) {
      const query = request.rawQuery === "" ? "" : `?${request.rawQuery}`;
      return redirectAnswer(307, encodeURI(path) + query, request.method);
    }
    const handler = this.#exact.get(path) ?? this.#handlerAbove(path);
    return handler === undefined ? errorAnswer(404, "404 page not found") : handler(request);
  }

  #handlerAbove(path: string): OpsHandler | undefined {
    return this.#below.find((route) => path.startsWith(route.path))?.handler;
  }
}
