import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { live } from "./live.svelte";

class Source {
  static made: Source[] = [];
  onmessage: ((event: { data: string }) => void) | undefined;
  onerror: (() => void) | undefined;
  closed = false;
  constructor(readonly url: string) {
    Source.made.push(this);
  }
  close(): void {
    this.closed = true;
  }
  says(nowNs: number, tables: Record<string, number>): void {
    this.onmessage?.({ data: JSON.stringify({ now_ns: nowNs, tables }) });
  }
}

beforeEach(() => {
  vi.useFakeTimers();
  Source.made = [];
  vi.stubGlobal("EventSource", Source);
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

it("changes a version only for tables that got rows", () => {
  live.told({ now_ns: 1, tables: { incident: 1 } });
  const before = live.version(["incident", "cause"]);
  live.told({ now_ns: 2, tables: { step: 5 } });
  expect(live.version(["incident", "cause"])).toBe(before);
  live.told({ now_ns: 3, tables: { cause: 1 } });
  expect(live.version(["incident", "cause"])).not.toBe(before);
  expect(live.nowNs).toBe(3);
});

it("says that the line is lost, and tries again until the server answers", () => {
  live.begin();
  Source.made[0]?.says(7, {});
  expect(live.connection).toBe("live");
  Source.made[0]?.onerror?.();
  vi.advanceTimersByTime(1);
  expect(live.connection).toBe("lost");
  const [heard, returns] = [live.heardMs, live.returns];
  expect(heard).toBe(Date.now() - 1);
  expect(Source.made[0]?.closed).toBe(true);
  vi.advanceTimersByTime(3000);
  expect(Source.made).toHaveLength(2);
  expect(live.heardMs).toBe(heard); // trying is not hearing
  Source.made[1]?.says(8, {});
  expect(live.connection).toBe("live");
  expect(live.returns).toBe(returns + 1);
});

it("takes silence for a dead line", () => {
  live.begin();
  Source.made[0]?.says(7, {});
  vi.advanceTimersByTime(14_000);
  expect(live.connection).toBe("live");
  vi.advanceTimersByTime(1100);
  expect(live.connection).toBe("lost");
});
