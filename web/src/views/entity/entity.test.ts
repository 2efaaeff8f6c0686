import { expect, test } from "vitest";
import { type Plot, plotOfEvent } from "./entity";

const plot = (title: string, source = "") => ({ title, source }) as Plot;

test("an event is drawn with the plot that it shows in", () => {
  const plots = [plot("Traffic"), plot("Carrier", "leadline agent"), plot("Carrier changes")];
  expect(plotOfEvent(plots, "link-down")?.title).toBe("Carrier changes");
  expect(plotOfEvent(plots, "something-else")?.title).toBe("Traffic");
  expect(plotOfEvent(plots.slice(0, 2), "link-down")?.title).toBe("Traffic"); // what is not stored cannot be drawn
  expect(plotOfEvent([plot("Carrier", "leadline agent")], "link-down")).toBeUndefined();
});
