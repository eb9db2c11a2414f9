-- Records the begin, the progress or the end of a replay of dead letters. A controller has one replay at a time, over all
-- gateways.
--
-- KEYS[1] replays HASH: controller -> JSON of its last replay, with id, seenMs, and endedMs once it has ended
-- ARGV[1] controller
-- ARGV[2] id of the replay
-- ARGV[3] JSON of the replay
-- ARGV[4] '1' when it begins
-- ARGV[5] now
-- ARGV[6] how long after its last news a replay counts as stopped, with its gateway
-- ARGV[7] how long a replay is kept after its last news
--
-- Answer: 1; 0 when the controller has another replay, which is under way (begin) or has begun since (else). Then nothing
-- has changed.

local now = tonumber(ARGV[5])

local function decoded(value)
  local is_read, replay = pcall(cjson.decode, value)
  if is_read and type(replay) == 'table' and type(replay.seenMs) == 'number' then return replay end
  return nil
end

local value = redis.call('HGET', KEYS[1], ARGV[1])
local known = value and decoded(value)
if known and known.id ~= ARGV[2] then
  if ARGV[4] ~= '1' then return 0 end
  if not known.endedMs and known.seenMs + tonumber(ARGV[6]) > now then return 0 end
end
if ARGV[4] == '1' then
  -- Deletes old replays, also of removed controllers: the HASH does not expire while any controller replays.
  local all = redis.call('HGETALL', KEYS[1])
  for at = 1, #all, 2 do
    local replay = decoded(all[at + 1])
    if not replay or replay.seenMs + tonumber(ARGV[7]) < now then redis.call('HDEL', KEYS[1], all[at]) end
  end
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[7])
return 1
