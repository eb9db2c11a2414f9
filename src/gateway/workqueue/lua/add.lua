-- Writes to the records of the given keys that they were added, when and why, before their jobs are added. The record must come first, because start.lua reads from it whether the key has anything to do.
--
-- KEYS[1] what a key is appended to, to name its record HASH (same hash tag)
-- KEYS[2] debounced ZSET
-- KEYS[3] pauses     HASH
-- KEYS[4] what a scope is appended to, to name the ZSET of keys that wait for the end of its pause
-- KEYS[5] queued    ZSET
-- ARGV[1] now
-- ARGV[2] debounce: window in ms, 0 for none
-- ARGV[3] debounce: longest wait in ms
-- then    three each: key, reasons (JSON objects joined by newlines, or ''), paused ('1', '0', or '' for unknown)
--
-- Answer: nothing. Reasons beyond 2 KiB are dropped; the time of the first add stays.

local now, window, longest = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local pausing = redis.call('EXISTS', KEYS[3]) == 1

for at = 4, #ARGV, 3 do
  local key, reasons, paused = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local record = KEYS[1] .. key
  local known = redis.call('HMGET', record, 'queuedAt', 'reasons', 'barrier', 'run')
  local first = tonumber(known[1])
  local fields = {}
  if not first then
    first = now
    fields = { 'queuedAt', ARGV[1] }
  end
  if reasons ~= '' then
    if not known[2] then
      fields[#fields + 1] = 'reasons'
      fields[#fields + 1] = reasons
    elseif #known[2] + #reasons < 2048 then
      fields[#fields + 1] = 'reasons'
      fields[#fields + 1] = known[2] .. '\n' .. reasons
    end
  end
  if #fields > 0 then redis.call('HSET', record, unpack(fields)) end
  -- A gateway of an earlier version let a record with nothing but a barrier expire.
  if known[3] then redis.call('PERSIST', record) end
  if window > 0 then
    redis.call('ZADD', KEYS[2], math.min(now + window, first + longest), key)
  elseif not known[4] then
    -- A key that runs is due when its run has ended (finish.lua).
    redis.call('ZADD', KEYS[5], 'NX', now, key)
  end
  if paused == '1' then
    redis.call('HSETNX', KEYS[3], 'object/' .. key, ARGV[1])
    pausing = true
  elseif paused == '0' and pausing then
    redis.call('HDEL', KEYS[3], 'object/' .. key)
    redis.call('UNLINK', KEYS[4] .. 'object/' .. key)
  end
end
