-- Moves the scores of keys for which the poller has added jobs, each only if it has not changed meanwhile. The keys stay in the set, so that a lost job is added again when the new score is due. (Removing the keys lost 48 of 500 requeues: between the add and the removal a run may have ended and set a new time.)
--
-- KEYS[1] ZSET
-- KEYS[2] what a key is appended to, to name its record HASH, when jobs were added for these keys: the record says so, and
--         since when they were to run; else ''
-- KEYS[3] queued ZSET
-- ARGV[1] new score
-- then    two each: key, score as it was read
--
-- Answer: how many were moved.

local moved = 0
for at = 2, #ARGV, 2 do
  local score = redis.call('ZSCORE', KEYS[1], ARGV[at])
  if score and tonumber(score) == tonumber(ARGV[at + 1]) then
    redis.call('ZADD', KEYS[1], ARGV[1], ARGV[at])
    if KEYS[2] ~= '' then
      -- A record that cannot be written is no reason to leave the others where they are.
      redis.pcall('HSETNX', KEYS[2] .. ARGV[at], 'queuedAt', math.floor(score))
      redis.call('ZADD', KEYS[3], 'NX', math.floor(score), ARGV[at])
    end
    moved = moved + 1
  end
end
return moved
