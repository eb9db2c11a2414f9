-- Removes the data of users that no longer exist from a view. If they stayed in the list of users that receive its
-- changes, its next change would count as missed by them.
--
-- KEYS[1] view HASH   users, missed:<user>
-- ARGV    the users

local gone = {}
for _, user in ipairs(ARGV) do
  gone[user] = true
  redis.call('HDEL', KEYS[1], 'missed:' .. user)
end
local users = redis.call('HGET', KEYS[1], 'users')
if not users then
  return 0
end
local left = {}
for user in string.gmatch(users, '[^\n]+') do
  if not gone[user] then
    table.insert(left, user)
  end
end
redis.call('HSET', KEYS[1], 'users', table.concat(left, '\n'))
return 1
