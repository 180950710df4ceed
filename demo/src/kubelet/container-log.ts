interface LogLine {
  readonly time: Date;
  readonly text: string;
}

/** What is wanted of a log: the options of `kubectl logs` that this kubelet knows. */
export interface LogQuery {
  readonly follow: boolean;
  /** How many of the last lines there are; all by default. */
  readonly tailLines: number;
  readonly timestamps: boolean;
}

/** Older lines are forgotten. */
const LINES_KEPT = 10_000;

/** What a container has written, in lines. */
export class ContainerLog {
  #lines: LogLine[] = [];
  #forgottenCount = 0;
  #unfinished = "";
  #isComplete = false;
  #onChange: (() => void)[] = [];

  append(text: string): void {
    const pieces = (this.#unfinished + text).split("\n");
    this.#unfinished = pieces.pop() ?? "";
    const time = new Date();
    this.#lines.push(...pieces.map((piece) => ({ time, text: piece })));
    const excess = this.#lines.length - LINES_KEPT;
    if (excess > 0) {
      this.#lines = this.#lines.slice(excess);
      this.#forgottenCount += excess;
    }
    this.#changed();
  }

  /** The container has ended: nothing comes any more. */
  complete(): void {
    if (this.#unfinished !== "") this.append("\n");
    this.#isComplete = true;
    this.#changed();
  }

  /** The lines asked for; with `follow` until the container, or the interest, ends. */
  async *read(query: LogQuery, signal: AbortSignal): AsyncGenerator<string> {
    const start = Math.max(this.#lines.length - query.tailLines, 0);
    for (let next = this.#forgottenCount + start; !signal.aborted;) {
      const lines = this.#lines.slice(Math.max(next - this.#forgottenCount, 0));
      next = this.#forgottenCount + this.#lines.length;
      const prefix = ({ time }: LogLine) => (query.timestamps ? `${time.toISOString()} ` : "");
      if (lines.length > 0) yield lines.map((line) => `${prefix(line)}${line.text}\n`).join("");
      else if (this.#isComplete || !query.follow) return;
      else await this.#nextChange(signal);
    }
  }

  #nextChange(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        signal.removeEventListener("abort", done);
        this.#onChange = this.#onChange.filter((listener) => listener !== done);
        resolve();
      };
      signal.addEventListener("abort", done);
      this.#onChange.push(done);
    });
  }

  #changed(): void {
    for (const listener of this.#onChange) listener();
  }
}
