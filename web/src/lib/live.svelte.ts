// What changed, as the server says it: server-sent events carry the names of tables with new rows and the server's time,
// never data.

export type Connection = "connecting" | "live" | "lost";

interface Told {
  now_ns: number;
  tables: Record<string, number>; // table: a number that changes when rows come
}

const SILENT_MS = 15_000; // the server says its time every second; after this much silence the line is dead
export const AGAIN_MS = 3000;

class Live {
  /** The server's time: in a replay the recorded time that is reached. Known within a second. */
  nowNs = $state(Date.now() * 1e6);
  connection = $state<Connection>("connecting");
  /** When the server was heard last, by this browser's clock, ms; undefined: never. */
  heardMs = $state<number | undefined>();
  /** How often it came back after it was lost: what was asked meanwhile is to be asked again. */
  returns = $state(0);
  #versions = $state<Record<string, number>>({});
  #source: EventSource | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** A number that changes when rows came to any of these tables; reading it in an effect follows them. */
  version(tables: readonly string[]): string {
    return tables.map((table) => this.#versions[table] ?? 0).join();
  }

  /** Follow the server until the page is left. Once it is lost it is tried again until it answers. */
  begin(): void {
    this.#source?.close();
    this.#source = new EventSource("/api/v1/changes");
    this.#source.onmessage = (event: MessageEvent<string>) => {
      this.told(JSON.parse(event.data) as Told);
      this.#again(SILENT_MS);
    };
    this.#source.onerror = () => this.#again(0);
    this.#again(SILENT_MS);
  }

  /** Take what the server said. */
  told(said: Told): void {
    this.nowNs = said.now_ns;
    this.heardMs = Date.now();
    if (this.connection === "lost") this.returns += 1;
    this.connection = "live";
    for (const [table, version] of Object.entries(said.tables)) this.#versions[table] = version;
  }

  #again(afterMs: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.connection = "lost";
      this.#source?.close();
      this.#timer = setTimeout(() => this.begin(), AGAIN_MS);
    }, afterMs);
  }
}

export const live = new Live();
