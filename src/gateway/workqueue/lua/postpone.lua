-- Moves the scores of keys, each only if it has not changed meanwhile: between the read and this a run may have ended and set a new time. Of several gateways that have read the same score, one moves it.
--
-- KEYS[1] ZSET
-- ARGV[1] new score
-- then    two each: key, score as it was read
--
-- Answer: the places of the keys that were moved, from 0.

local moved = {}
for at = 2, #ARGV, 2 do
  local score = redis.call('ZSCORE', KEYS[1], ARGV[at])
  if score and tonumber(score) == tonumber(ARGV[at + 1]) then
    redis.call('ZADD', KEYS[1], ARGV[1], ARGV[at])
    moved[#moved + 1] = (at - 2) / 2
  end
end
return moved
