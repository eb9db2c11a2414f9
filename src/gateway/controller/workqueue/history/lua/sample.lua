-- Adds what this gateway has counted to the samples of its intervals, and what waits and runs now to the last of them.
--
-- ARGV[1] how many intervals are kept
-- then    two each: number of the interval, counts as JSON, see samples.ts; in the order of the intervals
--
-- Answer: how many keys wait or run.

local function added(one, other)
  for name, value in pairs(other) do
    if type(value) == 'table' then
      one[name] = added(type(one[name]) == 'table' and one[name] or {}, value)
    else
      one[name] = (tonumber(one[name]) or 0) + value
    end
  end
  return one
end

local samples = KEYS[1] .. ':samples'
local waiting = redis.call('ZCARD', KEYS[1] .. ':queued') + redis.call('ZCARD', KEYS[1] .. ':backlog')
local running = redis.call('ZCARD', KEYS[1] .. ':in-flight')
for at = 2, #ARGV, 2 do
  local slot = tonumber(ARGV[at]) % tonumber(ARGV[1])
  local is_read, sample = pcall(cjson.decode, redis.call('HGET', samples, slot) or '{}')
  if not is_read or type(sample) ~= 'table' or sample.interval ~= tonumber(ARGV[at]) then
    sample = { interval = tonumber(ARGV[at]) }
  end
  sample = added(sample, cjson.decode(ARGV[at + 1]))
  if at == #ARGV - 1 then sample.waiting, sample.running = waiting, running end
  redis.call('HSET', samples, slot, cjson.encode(sample))
end
return waiting + running
