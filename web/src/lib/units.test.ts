import { describe, expect, it } from "vitest";
import {
  bitRate,
  bytes,
  count,
  duration,
  figures,
  gpuTime,
  inUnit,
  percent,
  probability,
  soFar,
} from "./units";

describe("units", () => {
  it("says what of a loss is an estimate, where that is a good part", () => {
    expect(soFar(100, 0)).toBe("");
    expect(soFar(100, 4)).toBe("");
    expect(soFar(100, 40)).toBe("so far, 40 GPU-s of it estimated");
    expect(soFar(100, 100)).toBe("so far, estimated");
    expect(soFar(null, 0)).toBe("");
  });
  it.each([
    [0, "0 s"],
    [12e-9, "12 ns"],
    [41.25e-6, "41.3 µs"],
    [0.21, "210 ms"],
    [1.334, "1.33 s"],
    [119, "119 s"],
    [240, "4 min"],
    [7500, "2 h 5 min"],
    [7199, "120 min"],
    [345_600, "4 d"],
  ])("tells %f seconds as %s", (seconds, text) => expect(duration(seconds)).toBe(text));

  it.each([
    [0, "0"],
    [0.0123, "0.0123"],
    [12.34, "12.3"],
    [100, "100"],
    [1234, "1,234"],
    [-0.5, "-0.5"],
  ])("keeps three figures of %f", (value, text) => expect(figures(value)).toBe(text));

  it("tells lost time in seconds first, then in hours", () => {
    expect(gpuTime(41.2)).toBe("41.2 GPU-s");
    expect(gpuTime(29_160)).toBe("8.1 GPU-h");
  });

  it("says unknown for what was not measured, never zero", () => {
    for (const tell of [gpuTime, duration, percent, probability, bytes, bitRate, count]) {
      expect(tell(null)).toBe("unknown");
      expect(tell(undefined)).toBe("unknown");
    }
  });

  it("never calls certain what is not", () => {
    expect(probability(0.9999)).toBe("0.99");
    expect(probability(1)).toBe("1");
    expect([0, 0.0003, 0.005].map(probability)).toEqual(["0.00", "<0.01", "0.01"]);
  });

  it("tells shares, bytes and rates", () => {
    expect(percent(0.812)).toBe("81 %");
    expect(percent(0.0042)).toBe("0.42 %");
    expect(bytes(1_234_000_000)).toBe("1.23 GB");
    expect(bitRate(4_975_000_000)).toBe("39.8 Gbit/s");
    expect(inUnit(0.5, "s")).toBe("500 ms");
    expect(inUnit(3, "Cel")).toBe("3 °C");
  });
});
