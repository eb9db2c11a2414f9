-- Removes keys of a view that is being removed. A removal takes many steps, its gateway may stand still between two of
-- them, and another gateway may take the view in this time.
--
-- KEYS[1]  view HASH
-- KEYS[2..] the keys
-- ARGV[1] ID of the removal, which the view carries in place of a writer's ID until the HASH is removed
-- ARGV[2] `begin`, `go on`, or `end`, which removes the HASH as well
-- ARGV[3] for `begin`: ID of the view's writer before the removal, '' for none
--
-- Answer: 1, or 0 when the view has another writer and nothing was removed. A client may send the script twice.

local id = redis.call('HGET', KEYS[1], 'writerId') or ''
if id ~= ARGV[1] and not (ARGV[2] == 'begin' and id == ARGV[3]) then
  return 0
end
for at = 2, #KEYS do
  redis.call('UNLINK', KEYS[at])
end
-- Removals first: a Redis that is full refuses a script whose first write takes memory.
if ARGV[2] ~= 'go on' then
  redis.call('UNLINK', KEYS[1])
end
if ARGV[2] == 'begin' then
  redis.call('HSET', KEYS[1], 'writerId', ARGV[1])
end
return 1
